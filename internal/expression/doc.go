// Package expression compiles and evaluates small expressions over JSON values, such as the conditions and transforms
// on the edges of a graph of agents. The language and its virtual machine are those of github.com/expr-lang/expr
// (expr-lang.org).
//
// An expression sees only the values output and input, and in a language with state also state: no clock, no
// randomness, no environment, no methods of Go values. A guard refuses constructs that this language does not have. A
// patcher adds checks that the virtual machine lacks: limits for numbers and for the time and memory of functions over
// lists, and a fixed order of keys. An expression never changes its input values, and its result shares no list or map
// with them.
package expression
