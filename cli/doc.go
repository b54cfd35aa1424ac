// Package cli is the arbor command as a package. A program with its own tree gets all of its commands from it: run,
// chat, resume, tree, lint, graph, serve and sessions, with their flags, output and exit statuses.
//
//	func main() { cli.Main(cli.WithTree(root)) }
//
// [Main] is for func main. [Run] does the same in tests: it takes the arguments and streams, handles no signals and
// returns the status.
//
// Standard output contains only the conversation; with --json it contains one event per line. Messages about the
// command itself go to standard error. Texts of models, tools and users are printed with visible control characters, so
// that no text can control a terminal; --json prints them unchanged.
//
// This package contains the options and the root command. Each noun of the command is a package below cli/internal. It
// gets a factory, which has the streams and the environment and opens trees and stores.
//
// The package contains the store of SQLite and the models that the environment can name; other stores and protocols
// come with options. It decides nothing about a conversation: it reads events and prints them with internal/render. It
// never prints or stores an API key, and never prints the password of a server's address.
package cli
