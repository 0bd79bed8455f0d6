"""WebShop: search, choose and buy in a text shop, made here or of the official data."""
