// Package yamldoc reads YAML that people write: it refuses what would take the parser
// long, or mean something else than what is written, and gives every value with its
// place in the file. A [Decoder] stores the values of mappings where their keys say, and
// reports what is not allowed. It imports internal/nearest and the parser, goccy/go-yaml.
package yamldoc
