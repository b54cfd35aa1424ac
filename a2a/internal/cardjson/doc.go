// Package cardjson writes agent cards in the JSON that A2A 1.0 defines by its Protocol Buffer schema,
// and brings the JSON of cards into the forms that are signed.
//
// The types of github.com/a2aproject/a2a-go leave required fields out when they
// are empty, and write the scopes of security requirements as plain arrays instead
// of objects (a2aproject/a2a-go#430). [Marshal] corrects both.
//
// It imports those types and nothing of this module. It fetches nothing and
// knows nothing of keys.
package cardjson
