"""The trajectory viewer: a self-contained HTML page for reading episodes.

``page.fragment`` returns the same viewer for embedding in another page; ``sources`` reads its data.
"""
