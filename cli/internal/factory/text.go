package factory

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/sessionform"
	"github.com/agentarbor/arbor/session"
)

// ShownID leaves out the parts of a key that the command fills in itself. An id with a
// slash is shown with all parts, so that it cannot be taken for another session's key.
func ShownID(key session.Key) string {
	if Own(key) && !strings.Contains(key.ID, "/") {
		return key.ID
	}
	return key.String()
}

// Own reports whether a session is one of the command itself, as --session names them.
func Own(key session.Key) bool { return key == session.ID(key.ID) }

// Stamp returns a time as people read it.
func Stamp(t time.Time) string { return sessionform.Stamp(t) }

// Table returns what aligns the cells of lines, which tabulators separate, below a head unless that is "".
func Table(w io.Writer, head string) *tabwriter.Writer {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if head != "" {
		fmt.Fprintln(table, head)
	}
	return table
}

// PrintJSON writes one object: in one line with --json, else indented.
func PrintJSON(w io.Writer, v any, inOneLine bool) error {
	if !inOneLine && render.IndentedJSON(w, v) == nil {
		return nil
	}
	render.JSON(w, v) // also what nests more deeply than the library indents
	return nil
}

// RandomHex returns random bytes in hexadecimal digits.
func RandomHex(bytes int) string {
	random := make([]byte, bytes)
	_, _ = rand.Read(random) // it never fails
	return hex.EncodeToString(random)
}

// CommandLine returns a command line for the database in use. The arguments are
// quoted already; the path may be empty.
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

// QuotePath quotes the path of a tree for a shell; "" stays so.
func QuotePath(path string) string {
	if path == "" {
		return ""
	}
	return QuoteArg(path)
}

// QuoteArg quotes an argument for a POSIX shell, if that is needed.
func QuoteArg(s string) string {
	safe := func(r rune) bool {
		return r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+,", r))
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !safe(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
