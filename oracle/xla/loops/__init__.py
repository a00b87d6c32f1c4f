"""Parts of a stream that stay loops: what runs them, the boxes of buffers they touch, and how they are cut out."""
