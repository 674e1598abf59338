from .export import export as export
from .loop import NotFiniteError as NotFiniteError
from .loop import fit as fit
from .state import TrainState as TrainState
from .train import parse_recipe as parse_recipe
from .train import train as train
