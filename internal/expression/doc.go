// Package expression evaluates small expressions over JSON values, such as the
// conditions and transforms on the edges of a graph of agents. The language is
// that of github.com/expr-lang/expr (expr-lang.org), whose parser and type checker
// are used; evaluation is this package's own, because it has to be bounded.
//
// An expression sees two values, output and input, and in a language with state also
// this, and nothing else: no clock, no randomness, no environment, no methods of Go
// values. What it may cost is bounded by constants: the length of its source and the
// number of its nodes when it is compiled, steps and memory when it is evaluated. It
// never changes the values that it is given, and what it returns shares no list or
// map with them.
//
// Of this module the package imports internal/nearest.
package expression
