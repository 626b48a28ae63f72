"""Layers: nn.Modules that project, place, attend and project back. No model, no config file, no training."""

from twofold.attention.additive import AdditiveAttention as AdditiveAttention
from twofold.attention.cache import KeyValues as KeyValues
from twofold.attention.cross import CrossAttention as CrossAttention
from twofold.attention.initialise import Aligned as Aligned
from twofold.attention.initialise import Copy as Copy
from twofold.attention.initialise import Independent as Independent
from twofold.attention.initialise import Patent as Patent
from twofold.attention.positions import Alibi as Alibi
from twofold.attention.positions import LearnedPositions as LearnedPositions
from twofold.attention.positions import SinusoidalPositions as SinusoidalPositions
from twofold.attention.rotary import Interpolation as Interpolation
from twofold.attention.rotary import Llama3 as Llama3
from twofold.attention.rotary import Rotary as Rotary
from twofold.attention.rotary import RotaryTable as RotaryTable
from twofold.attention.rotary import Yarn as Yarn
from twofold.attention.split import Kind as Kind
from twofold.attention.split import SplitSelfAttention as SplitSelfAttention
