// Package cardjson encodes agent cards in the JSON that A2A 1.0 defines by its Protocol Buffer schema, and converts the
// JSON of cards to the forms that signatures cover.
//
// The types of github.com/a2aproject/a2a-go omit empty required fields, and encode the scopes of security requirements
// as plain arrays instead of objects (a2aproject/a2a-go#430). [Marshal] corrects both.
//
// The package fetches nothing and handles no keys.
package cardjson
