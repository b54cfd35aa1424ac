package factory

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/session"
)

// ShownID returns a key without the parts that the command fills in itself. If the id contains a slash, it returns all
// parts, so that the id cannot be confused with another session's key.
func ShownID(key session.Key) string {
	if Own(key) && !strings.Contains(key.ID, "/") {
		return key.ID
	}
	return key.String()
}

// Own reports whether a session is one of the command's own, which --session names by their id.
func Own(key session.Key) bool { return key == session.ID(key.ID) }

// Table returns a writer that aligns the cells of lines, which tabs separate, below a head unless that is "".
func Table(w io.Writer, head string) *tabwriter.Writer {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if head != "" {
		fmt.Fprintln(table, head)
	}
	return table
}

// PrintJSON writes one object: in one line with --json, otherwise indented.
func (f *Factory) PrintJSON(v any) error {
	if !f.JSON && render.IndentedJSON(f.Stdout, v) == nil {
		return nil
	}
	render.JSON(f.Stdout, v) // also for values that are nested more deeply than encoding/json indents
	return nil
}

// RandomHex returns random bytes in hexadecimal digits.
func RandomHex(bytes int) string {
	random := make([]byte, bytes)
	_, _ = rand.Read(random) // it never fails
	return hex.EncodeToString(random)
}

// CommandLine returns a command line for the current database. The arguments are already quoted; the path may be empty.
func (f *Factory) CommandLine(command, path string, rest ...string) string {
	words := []string{f.Name, command}
	if path != "" {
		words = append(words, path)
	}
	words = append(words, rest...)
	switch {
	case f.Server.URL != "" && !slices.Contains(rest, "--server"):
		words = append(words, f.Server.Words()...)
	case f.Place.DB != "":
		words = append(words, "--db", QuoteArg(WithoutPassword(f.Place.DB)))
	}
	return strings.Join(words, " ")
}

// Words returns flags with their values, which it quotes, without those that have none.
func Words(flagsAndValues ...string) (words []string) {
	for pair := range slices.Chunk(flagsAndValues, 2) {
		if pair[1] != "" {
			words = append(words, pair[0], QuoteArg(pair[1]))
		}
	}
	return words
}

// QuotePath quotes the path of a tree for a shell; "" remains "".
func QuotePath(path string) string {
	if path == "" {
		return ""
	}
	return QuoteArg(path)
}

// QuoteArg quotes an argument for a POSIX shell if necessary.
func QuoteArg(s string) string {
	safe := func(r rune) bool {
		return r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+,", r))
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !safe(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
