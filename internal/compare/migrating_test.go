package compare

const migrating = "../../docs/migrating.md"
