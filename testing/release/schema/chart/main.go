// Command chart packs the Helm chart of docs/deploy/chart, as `helm package`
// does, but with the same bytes each time:
//
//	go run ./chart -dist ../../../dist
//
// It also renders the chart, for tests in modules without Helm:
//
//	go run ./chart -render installation=shop,new=true
package main

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/strvals"
)

func main() {
	folder := flag.String("chart", "../../../docs/deploy/chart", "Folder of the chart.")
	dist := flag.String("dist", "", "Folder in which to put the packed chart.")
	set := flag.String("render", "", "Values, as after helm's --set, with which to render the chart.")
	flag.Parse()
	slog.SetLogLoggerLevel(slog.LevelWarn) // Helm logs each symbolic link
	var out string
	var err error
	if *dist != "" {
		out, err = pack(*folder, *dist)
	} else {
		out, err = print(*folder, *set)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
	fmt.Println(out)
}

// pack packs the chart. Its files have the time of the commit.
func pack(folder, dist string) (path string, err error) {
	c, err := loader.LoadDir(folder)
	if err != nil {
		return "", err
	}
	out, err := exec.Command("git", "show", "-s", "--format=%ct").Output()
	if err != nil {
		return "", fmt.Errorf("time of the commit: %w", err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		return "", err
	}
	at := time.Unix(seconds, 0).UTC()
	c.ModTime, c.SchemaModTime = at, at
	for _, files := range [][]*common.File{c.Raw, c.Templates, c.Files} {
		for _, f := range files {
			f.ModTime = at
		}
	}
	return util.Save(c, dist)
}

// print renders the chart as `helm template` prints it.
func print(folder, set string) (string, error) {
	values, err := strvals.Parse(set)
	if err != nil {
		return "", err
	}
	c, err := loader.LoadDir(folder)
	if err != nil {
		return "", err
	}
	r, err := render(c, values)
	if err != nil {
		return "", err
	}
	return documents(r), nil
}

// kubernetes is the version for which the chart is rendered. The library's own is
// too old, because only Helm's build sets it.
var kubernetes = common.KubeVersion{Version: "v1.37.2", Major: "1", Minor: "37"}

// render renders the chart of an install, without a cluster.
func render(c *v2.Chart, values map[string]any) (*v1.Release, error) {
	return renderAs("ids", c, values)
}

func renderAs(name string, c *v2.Chart, values map[string]any) (*v1.Release, error) {
	install := action.NewInstall(new(action.Configuration))
	install.KubeVersion = &kubernetes
	install.DryRunStrategy = action.DryRunClient
	install.ReleaseName, install.Namespace = name, "ids"
	r, err := install.Run(c, values)
	if err != nil {
		return nil, err
	}
	return r.(*v1.Release), nil
}

// documents are all objects of a release, in YAML.
func documents(r *v1.Release) string {
	all := r.Manifest
	for _, h := range r.Hooks {
		all += "---\n" + h.Manifest + "\n"
	}
	return all
}
