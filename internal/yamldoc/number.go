package yamldoc

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/agentarbor/arbor/internal/lazyregexp"
)

// jsonNumber is the grammar of JSON, whose numbers are the same in YAML.
var jsonNumber = lazyregexp.New(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// number returns the number that a text without quotes is. The parser reads numbers with
// an exponent and no point, as in 1e-07, and whole ones beyond 64 bits as texts. In YAML
// 1.2 (yaml.org/spec/1.2.2, 10.3.2) they are numbers, and in JSON, which is YAML too. It
// reports false for other texts, and for numbers that no float64 has, which stay texts.
func number(n *ast.StringNode) (json.Number, bool) {
	if n.Token == nil || n.Token.Type != token.StringType || !jsonNumber.MatchString(n.Value) {
		return "", false
	}
	if f, err := strconv.ParseFloat(n.Value, 64); err != nil || math.IsInf(f, 0) {
		return "", false
	}
	return json.Number(n.Value), true
}
