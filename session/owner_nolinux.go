//go:build !linux

package session

import "os"

func hostName() string {
	name, _ := os.Hostname()
	return name
}
