"""What one person said and more people may know: rules, and the step that shares it."""
