// Package yamldoc reads YAML that people write: it refuses what would take the parser
// long, or mean something else than what is written, and gives every value with its
// place in the file. Its callers decide what a value may be, and report what is not
// allowed; a [Reader] does that for files that hold nothing but keys, lists and scalars. It
// imports internal/nearest and the parser, goccy/go-yaml.
package yamldoc
