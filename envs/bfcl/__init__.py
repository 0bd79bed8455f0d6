"""BFCL's multi-turn function calling, over the services and data of bfcl-eval."""
