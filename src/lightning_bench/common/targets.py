"""Values of targets that are not to be predicted or counted; they stand in stored predictions."""

#: The first label of an example without any right class (ReaL); no model predicts it.
NO_LABEL = -1
#: The target of a token that is not to be predicted; the one that cross-entropy ignores.
IGNORED = -100
