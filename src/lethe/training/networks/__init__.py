"""Networks that hold K models at once: by written-out layers, by vmap, or one by autograd."""
