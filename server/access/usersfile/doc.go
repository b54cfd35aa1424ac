// Package usersfile stores the users of a server in a YAML file that people can read and write:
//
//   - name: ann
//     token: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//     may: [inspect, desk]
//
// The package reads the file again when it changes, and adds and removes users for the command arbor users. It never
// stores a token: the file contains the hashes of tokens.
package usersfile
