// Package expression compiles and evaluates small expressions over JSON values, such as the
// conditions and transforms on the edges of a graph of agents. The language and its virtual
// machine are those of github.com/expr-lang/expr (expr-lang.org).
//
// An expression sees the values output and input, in a language with state also state, and
// nothing else: no clock, no randomness, no environment, no methods of Go values. A guard
// refuses what the language here does not have, and a patcher adds what the virtual machine
// does not check: numbers that grow too large, the order of keys, and the time and the memory
// of functions over lists. An expression never changes the values that it is given, and its
// result shares no list or map with them.
package expression
