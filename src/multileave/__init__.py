"""multileave: which ranker do users prefer?"""

from multileave.errors import *
from multileave.impression import Impression
from multileave.methods import *
