// Package yamldoc reads YAML of people: it refuses what would take the parser long,
// or mean something else than what stands there, and gives every value with its place
// in the file. What a value may be, and what is said if it is something else, is for
// those who read it. It imports nothing but the parser, goccy/go-yaml.
package yamldoc
