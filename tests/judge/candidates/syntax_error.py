# expect: build_failed
# says: SyntaxError
"""Does not parse."""

class ModelNew(
    def forward(self, x) return x
