// One binary with every program of the test cluster: the applet is chosen by the name it is called by, or by its
// first argument. Linking them together takes a third of the disk that seven programs would.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
)

// Filled in kubernetes.go and extra.go.
var applets = map[string]func(){}

func main() {
	name := filepath.Base(os.Args[0])
	if _, known := applets[name]; !known && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	if applet, known := applets[name]; known {
		applet()
		return
	}
	names := make([]string, 0, len(applets))
	for known := range applets {
		names = append(names, known)
	}
	sort.Strings(names)
	fmt.Fprintf(os.Stderr, "usage: kubernetes APPLET [ARGUMENT...]; applets: %v\n", names)
	os.Exit(2)
}
