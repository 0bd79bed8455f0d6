"""Agreement of a method's credit with the true advantages of turns (docs/credit_quality.md)."""
