// Package visible makes hidden characters in the texts of others visible to people. Texts of models, tools, peers or
// files may contain characters that control a terminal, change the direction of the text around them, or are invisible
// to people but not to programs. The package shows them as escapes. [Arguments] shows the arguments of a call to the
// person who decides about it: all of them, and so that no part looks like another line of the output.
//
// The package never changes stored texts.
package visible
