"""The Seam box: an arc's past, and then the arc itself."""
