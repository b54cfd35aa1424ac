package agentfile

import (
	_ "embed"
	"strings"
)

//go:embed reference.md
var referenceText string

// Reference returns the reference page about agents' files, in Markdown. Its
// tables are made from the description that drives the parser;
// docs/agentfile.md is this text.
func Reference() string {
	var b strings.Builder
	rows(&b, "", keys())
	return strings.ReplaceAll(referenceText, "<!-- keys -->\n", b.String())
}

func rows(b *strings.Builder, prefix string, table []key) {
	for _, k := range table {
		row(b, prefix, k)
		rows(b, prefix+k.name+".", k.keys)
	}
}

func row(b *strings.Builder, prefix string, k key) {
	value := k.typ
	if k.example != "" {
		value = "`" + k.example + "`" // which shows the type
	}
	b.WriteString("| `" + prefix + k.name + "` | " + value + " | " + k.def + " | " + k.meaning + " |\n")
}
