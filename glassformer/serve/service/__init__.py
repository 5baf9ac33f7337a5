"""The HTTP service: models by name, shared batches, OpenAI's routes and text-embeddings-inference's."""
