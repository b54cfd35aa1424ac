// Package visible writes texts of others so that a person sees what is in them. What a
// model, a tool, a peer or a file says may hold characters that drive a terminal, turn
// the direction of the words around them, or are not seen at all while a program reads
// them; they are shown as escapes. [Arguments] shows what a call is to run with to who
// decides about it: whole, and so that nothing in it can pass for a line of ours.
//
// It imports the standard library only, and never changes what is stored.
package visible
