"""Where the explorer's subjects come from: tensors and pictures, tables, texts, saved results."""
