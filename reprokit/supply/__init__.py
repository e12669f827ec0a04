"""Everything that enters an image: fetched by the host, kept in the store, served to builds by the gateway."""
