// Package doctest holds the tests that keep the README, the pages in docs/ and the READMEs of the examples true: they
// run every command and every Go block, and compare lists and tables with the code that they are about. It has no code
// besides its tests.
//
// The words after a fenced block's language say what it is for:
//
//	sh             run in a folder of the page's own, with arbor on the PATH; it must end with status 0
//	sh status=2    the same, but it must end with this status
//	sh more        goes on with the shell of the block before, and ends with its status
//	sh repo        run at the root of the repository
//	sh endpoint    http://localhost:11434/v1 is the address of an endpoint that the test serves
//	sh ci          not run here, but each line must stand in .ci/steps, word for word
//	go             a whole program: built in a module that only requires this one, then run
//	go test        a whole test file: passes in such a module
//	go fragment    statements or declarations: compiled together with testdata/prelude.go.txt, where
//	               the names that fragments share are declared; imports are added
//	go in=FILE     stands in that file, but for its indentation: a test of a module of its own
//	js in=FILE     the same, as in python: a script that a test runs
//	file=FILE      of any language: written to the page's folder, for the sh blocks after it; a page with such a
//	               block of Go has a module that requires this one there
//	text output    what the block before printed, both streams together; … stands for anything
//
// Blocks of other languages, and text without output, are for reading only.
// Nothing reaches a network: there is no key, no proxy for modules, and home and
// state folders are temporary.
package doctest
