# The public names: the only list of them, read at run time as well as by type checkers.

from . import errors as errors
from . import evaluation as evaluation
from . import features as features
from . import losses as losses
from . import sets as sets
from . import similarity as similarity
from .config import ImageConfig as ImageConfig
from .config import ModelConfig as ModelConfig
from .config import SetConfig as SetConfig
from .config import SimilarityConfig as SimilarityConfig
from .config import TextConfig as TextConfig
from .data.vocabulary import Vocabulary as Vocabulary
from .engines.addresses import open_store as open_store
from .errors import DiversetError as DiversetError
from .evaluation.options import EvalOptions as EvalOptions
from .evaluation.run import compare as compare
from .evaluation.run import evaluate as evaluate
from .evaluation.sets import evaluate_sets as evaluate_sets
from .index.set_index import SetIndex as SetIndex
from .index.set_store import IndexSettings as IndexSettings
from .model.load import load as load
from .model.model import Model as Model
from .model.onnx import export_onnx as export_onnx
from .photos.library.indexing import index_folders as index_folders
from .photos.library.library import Library as Library
from .photos.search.query import SearchQuery as SearchQuery
from .photos.search.searcher import Searcher as Searcher
from .types import EmbeddingSets as EmbeddingSets
from .types import Features as Features
from .types import Maps as Maps
from .types import Padded as Padded

__version__: str
