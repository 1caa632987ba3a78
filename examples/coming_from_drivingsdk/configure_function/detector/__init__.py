from .model import Detector
