"""The second experiment of the paper: Pascal VOC photographs."""
