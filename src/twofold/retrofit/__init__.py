"""Split attention for trained transformers models. Importing this makes the Auto classes open converted ones."""

from twofold.retrofit.convert import Report as Report
from twofold.retrofit.convert import convert as convert
from twofold.retrofit.convert import freeze_all_but_self as freeze_all_but_self
from twofold.retrofit.convert import report as report
from twofold.retrofit.convert import revert as revert
