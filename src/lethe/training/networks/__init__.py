"""Networks: K models at once by written-out layers, or one by autograd."""
