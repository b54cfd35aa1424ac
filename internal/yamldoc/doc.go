// Package yamldoc reads YAML that people write. It refuses text that would take the parser long or have an unexpected
// meaning, and returns every value with its place in the file. A [Decoder] reads mappings by tables of keys and reports
// everything that is not allowed.
package yamldoc
