package expression

import (
	"fmt"
	"slices"
	"strings"
)

// functions contains the allowed functions of the language, sorted. The others use a clock, return values that are not
// JSON, or can become very large.
var functions = []string{
	"abs", "all", "any", "ceil", "concat", "count", "filter", "find", "findIndex", "findLast", "findLastIndex", "first",
	"float", "floor", "fromJSON", "get", "hasPrefix", "hasSuffix", "int", "join", "keys", "last", "len", "lower", "map",
	"max", "mean", "min", "none", "one", "replace", "reverse", "round", "split", "string", "sum", "take", "toJSON",
	"trim", "trimPrefix", "trimSuffix", "type", "upper", "values",
}

// overLists contains the functions over a list, most of them with a condition or another expression.
var overLists = []string{
	"all", "any", "count", "filter", "find", "findIndex", "findLast", "findLastIndex", "map", "none", "one", "sum",
}

func available(name string) bool {
	_, ok := slices.BinarySearch(functions, name)
	return ok
}

// otherNames maps names of functions in other languages to the allowed functions.
var otherNames = map[string]string{
	"length": "len", "size": "len", "count": "len", "str": "string", "toString": "string", "contains": "a contains b",
	"exists": "a != nil", "isEmpty": "len(a) == 0", "lowercase": "lower", "toLowerCase": "lower", "uppercase": "upper",
	"Number": "float", "parseInt": "int", "parseFloat": "float", "some": "any", "every": "all",
}

func nearestFunction(name string) string {
	instead := otherNames[name]
	for _, f := range functions {
		if strings.EqualFold(f, name) {
			instead = f
		}
	}
	if instead == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", instead)
}
