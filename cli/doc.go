// Package cli is the arbor command as a package, so that a program with a tree
// of its own gets all of it: run, chat, resume, tree, lint, graph, serve and sessions,
// with their flags, output and exit statuses.
//
//	func main() { cli.Main(cli.WithTree(root)) }
//
// [Main] is for func main; [Run] is the same for tests: it takes the arguments
// and streams, handles no signals and returns the status.
//
// Standard output holds the conversation and nothing else; with --json it holds
// one event a line. Messages about the command itself go to standard error. What
// models, tools and users wrote is printed for people with its control
// characters made visible, so that no text can drive a terminal; --json carries
// it word for word.
//
// The options and the root command are here. Each noun of the command is a package below cli/internal. It
// gets a factory, which has the streams and the environment and opens trees and stores.
//
// The package imports the runner, SQLite's store, checkpoint, conversation, agentfile,
// agentgraph, a2a with its server, and the models that the environment can name; other
// stores and protocols come with options. It decides nothing about a conversation: whatever
// it shows is read from events, and drawn by its internal package render.
// It never prints or stores an API key, and never prints the password of a server's
// address.
package cli
