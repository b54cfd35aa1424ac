package yamldoc

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/agentarbor/arbor/internal/lazyregexp"
)

// jsonNumber matches JSON numbers, which YAML reads in the same way.
var jsonNumber = lazyregexp.New(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// number returns the number in an unquoted string. The parser returns integers beyond 64 bits, and numbers with an
// exponent but no point, such as 1e-07, as strings. In YAML 1.2 (yaml.org/spec/1.2.2, 10.3.2) and in JSON they are
// numbers. It returns false for other strings, and for numbers beyond the range of float64, which remain strings.
func number(n *ast.StringNode) (json.Number, bool) {
	if n.Token == nil || n.Token.Type != token.StringType || !jsonNumber.MatchString(n.Value) {
		return "", false
	}
	if f, err := strconv.ParseFloat(n.Value, 64); err != nil || math.IsInf(f, 0) {
		return "", false
	}
	return json.Number(n.Value), true
}
