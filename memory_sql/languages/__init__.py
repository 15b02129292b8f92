"""Words, phrases and dates of human languages: data in TOML by language, and the pure functions over texts."""
