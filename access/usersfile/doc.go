// Package usersfile keeps the users of a server in a file of YAML that people can read and write:
//
//   - name: ann
//     token: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//     may: [inspect, desk]
//
// It reads the file again when it changes, and adds and removes users as the command does. It
// imports access and the reader of YAML, and never holds a token: the file has their hashes.
package usersfile
