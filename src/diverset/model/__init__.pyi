from .model import Model as Model
