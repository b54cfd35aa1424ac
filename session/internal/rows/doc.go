// Package rows contains what the stores in SQL databases share in addition to [session.Row]: how events and changes
// of the state are encoded, how logs are read page by page, and how errors are explained.
package rows
