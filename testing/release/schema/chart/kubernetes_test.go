package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/strvals"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install" // its types
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install" // its types
	batchvalidation "k8s.io/kubernetes/pkg/apis/batch/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // its types
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	_ "k8s.io/kubernetes/pkg/apis/networking/install" // its types
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	_ "k8s.io/kubernetes/pkg/apis/policy/install" // its types
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"
	"k8s.io/pod-security-admission/api"
	podsecurity "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// objects are the objects of a release.
type objects struct {
	workloads []workload
	services  []*corev1.Service
	configs   map[string]*corev1.ConfigMap
	secrets   map[string]*corev1.Secret
	budgets   []*policyv1.PodDisruptionBudget
	policies  []*networkingv1.NetworkPolicy
	monitors  []*monitoringv1.PodMonitor
	rules     []*monitoringv1.PrometheusRule
}

// workload is an object that makes pods.
type workload struct {
	name     string
	template corev1.PodTemplateSpec
	// serves if the pods run until they are stopped.
	serves bool
}

// read decodes the objects of a release, and validates them as Kubernetes' API
// server does when it creates them.
func read(t *testing.T, all string) objects {
	t.Helper()
	o := objects{configs: make(map[string]*corev1.ConfigMap), secrets: make(map[string]*corev1.Secret)}
	codecs := serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict)
	for text := range strings.SplitSeq(all, "\n---\n") {
		data := []byte(strings.TrimPrefix(text, "---\n"))
		var head metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(data, &head); err != nil {
			t.Fatalf("%v:\n%s", err, data)
		}
		if head.Kind == "" {
			continue
		}
		name := head.Kind + " " + head.Name
		switch head.Kind { // types of Prometheus' operator
		case monitoringv1.PodMonitorsKind:
			o.monitors = append(o.monitors, strictly[monitoringv1.PodMonitor](t, data))
			continue
		case monitoringv1.PrometheusRuleKind:
			o.rules = append(o.rules, strictly[monitoringv1.PrometheusRule](t, data))
			continue
		}
		versioned, _, err := codecs.UniversalDeserializer().Decode(data, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, data)
		}
		internal, _, err := codecs.UniversalDecoder().Decode(data, nil, nil) // with defaults
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, data)
		}
		for _, wrong := range check(t, internal) {
			t.Errorf("%s: %v", name, wrong)
		}
		switch v := versioned.(type) {
		case *appsv1.StatefulSet:
			o.workloads = append(o.workloads, workload{v.Name, v.Spec.Template, true})
		case *appsv1.Deployment:
			o.workloads = append(o.workloads, workload{v.Name, v.Spec.Template, true})
		case *batchv1.Job:
			o.workloads = append(o.workloads, workload{v.Name, v.Spec.Template, false})
		case *corev1.Service:
			o.services = append(o.services, v)
		case *corev1.ConfigMap:
			o.configs[v.Name] = v
		case *corev1.Secret:
			o.secrets[v.Name] = v
		case *policyv1.PodDisruptionBudget:
			o.budgets = append(o.budgets, v)
		case *networkingv1.NetworkPolicy:
			o.policies = append(o.policies, v)
		}
	}
	return o
}

// strictly decodes an object without unknown fields.
func strictly[T any](t *testing.T, data []byte) *T {
	t.Helper()
	v := new(T)
	if err := yaml.UnmarshalStrict(data, v); err != nil {
		t.Errorf("%v:\n%s", err, data)
	}
	return v
}

// check calls the validation of an object's kind. A namespace, and a job's
// selector, are added when the object is created.
func check(t *testing.T, object runtime.Object) field.ErrorList {
	t.Helper()
	switch v := object.(type) {
	case *apps.StatefulSet:
		v.Namespace = "ids"
		return appsvalidation.ValidateStatefulSet(v, appsvalidation.StatefulSetValidationOptions{}, pod.GetValidationOptionsFromPodTemplate(&v.Spec.Template, nil))
	case *apps.Deployment:
		v.Namespace = "ids"
		return appsvalidation.ValidateDeployment(v, pod.GetValidationOptionsFromPodTemplate(&v.Spec.Template, nil))
	case *batch.Job:
		v.Namespace = "ids"
		manual := true
		v.Spec.ManualSelector, v.Spec.Selector = &manual, &metav1.LabelSelector{MatchLabels: v.Spec.Template.Labels}
		return batchvalidation.ValidateJobCreate(v, batchvalidation.JobValidationOptions{
			PodValidationOptions: pod.GetValidationOptionsFromPodTemplate(&v.Spec.Template, nil), RequirePrefixedLabels: false,
		})
	case *core.Service:
		v.Namespace = "ids"
		if v.Spec.ClusterIP != "" {
			v.Spec.ClusterIPs = []string{v.Spec.ClusterIP} // the API server adds it, too
		}
		return corevalidation.ValidateServiceCreate(v)
	case *core.ConfigMap:
		v.Namespace = "ids"
		return corevalidation.ValidateConfigMap(v)
	case *core.Secret:
		v.Namespace = "ids"
		return corevalidation.ValidateSecret(v)
	case *policy.PodDisruptionBudget:
		v.Namespace = "ids"
		return policyvalidation.ValidatePodDisruptionBudget(v, policyvalidation.PodDisruptionBudgetValidationOptions{})
	case *networking.NetworkPolicy:
		v.Namespace = "ids"
		return networkingvalidation.ValidateNetworkPolicy(v, networkingvalidation.NetworkPolicyValidationOptions{})
	}
	t.Fatalf("no validation for %T", object)
	return nil
}

// TestObjectsFitTogether: selectors select the pods they are meant for, and
// every name has its object.
func TestObjectsFitTogether(t *testing.T) {
	for name, values := range valueSets {
		t.Run(name, func(t *testing.T) {
			o := read(t, rendered(t, values))
			seen := make(map[string]bool)
			for _, w := range o.workloads {
				fits(t, o, w)
				seen[w.name] = true
			}
			if !seen["ids-worker"] || !seen["ids-loader"] || len(o.budgets) != 2 || len(o.policies) != 1 {
				t.Errorf("workloads %v, %d budgets, %d network policies", seen, len(o.budgets), len(o.policies))
			}
			for _, s := range o.services {
				if selected(o, s.Spec.Selector) == nil {
					t.Errorf("service %s selects nothing", s.Name)
				}
			}
		})
	}
}

// selected are the names of the workloads whose pods have the labels.
func selected(o objects, by map[string]string) (names []string) {
	for _, w := range o.workloads {
		if len(by) > 0 && labels.SelectorFromSet(by).Matches(labels.Set(w.template.Labels)) {
			names = append(names, w.name)
		}
	}
	return names
}

// fits checks the pods of a workload.
func fits(t *testing.T, o objects, w workload) {
	t.Helper()
	only := func(what string, s *metav1.LabelSelector) bool {
		found := selected(o, s.MatchLabels)
		return len(found) == 1 && found[0] == w.name
	}
	container := w.template.Spec.Containers[0]
	ports := make(map[intstr.IntOrString]bool)
	for _, p := range container.Ports {
		ports[intstr.FromString(p.Name)] = true
	}
	if w.serves {
		budgets := 0
		for _, b := range o.budgets {
			if only("budget", b.Spec.Selector) {
				budgets++
			}
		}
		if budgets != 1 {
			t.Errorf("%d budgets for %s", budgets, w.name)
		}
		topologies := make(map[string]bool)
		for _, c := range w.template.Spec.TopologySpreadConstraints {
			topologies[c.TopologyKey] = only("spread", c.LabelSelector)
		}
		if !topologies[corev1.LabelTopologyZone] || !topologies[corev1.LabelHostname] {
			t.Errorf("%s is not spread over zones and hosts: %v", w.name, topologies)
		}
		for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
			if probe == nil || !ports[probe.HTTPGet.Port] {
				t.Errorf("%s: a probe is missing or has no port: %v", w.name, probe)
			}
		}
		for _, from := range container.EnvFrom {
			if from.ConfigMapRef == nil || o.configs[from.ConfigMapRef.Name] == nil {
				t.Errorf("%s: no config map %v", w.name, from)
			}
		}
		if container.Resources.Limits.Cpu().Sign() != 0 || *w.template.Spec.TerminationGracePeriodSeconds < 35 {
			t.Errorf("%s: CPU limit %v, %d s to stop", w.name, container.Resources.Limits.Cpu(), *w.template.Spec.TerminationGracePeriodSeconds)
		}
		for _, p := range o.policies {
			s, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
			if err != nil || !s.Matches(labels.Set(w.template.Labels)) {
				t.Errorf("no network policy for %s: %v", w.name, err)
			}
		}
	}
	projected := make(map[string]bool)
	for _, v := range w.template.Spec.Volumes {
		for _, s := range v.Projected.Sources {
			for _, item := range s.Secret.Items {
				projected["/etc/idworker/"+item.Path] = true
			}
		}
	}
	mounted := make(map[string]bool)
	for _, m := range container.VolumeMounts {
		mounted[m.MountPath] = true
	}
	used := make(map[string]bool)
	for _, v := range container.Env {
		if filepath.IsAbs(v.Value) {
			used[v.Value] = true
			if dir := filepath.Dir(v.Value); !mounted[dir] || dir == "/etc/idworker" && !projected[v.Value] {
				t.Errorf("%s: nothing is mounted at %s", w.name, v.Value)
			}
		}
		if v.ValueFrom != nil {
			ref := v.ValueFrom.SecretKeyRef
			if s := o.secrets[ref.Name]; s == nil || s.StringData[ref.Key] == "" {
				t.Errorf("%s: no secret %v", w.name, ref)
			}
		}
	}
	for at := range projected {
		if !used[at] {
			t.Errorf("%s has the secret %s and no use for it", w.name, at)
		}
	}
}

// TestPodsAreRestricted: the pods meet Kubernetes' strictest standard, and more.
func TestPodsAreRestricted(t *testing.T) {
	standard, err := podsecurity.NewEvaluator(podsecurity.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range read(t, rendered(t, valueSets["everything"])).workloads {
		results := standard.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &w.template.ObjectMeta, &w.template.Spec)
		if r := podsecurity.AggregateCheckResults(results); !r.Allowed {
			t.Errorf("%s: %s", w.name, r.ForbiddenDetail())
		}
		readOnly := w.template.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem
		token := w.template.Spec.AutomountServiceAccountToken
		if readOnly == nil || !*readOnly || token == nil || *token || *w.template.Spec.SecurityContext.RunAsUser != 65534 {
			t.Errorf("%s: read-only %v, token %v", w.name, readOnly, token)
		}
	}
}

// TestPodsPassOpenShift: with the flags of docs/containers.md, the pods meet the
// constraints of restricted-v2, by which OpenShift admits pods of anyone. It is
// here as `oc get scc restricted-v2 -o yaml` prints it. Where a pod sets no
// number, OpenShift does.
func TestPodsPassOpenShift(t *testing.T) {
	// A namespace's numbers, of its annotations openshift.io/sa.scc.uid-range and
	// openshift.io/sa.scc.supplemental-groups.
	inRange := func(n *int64) bool { return n == nil || *n >= 1000680000 && *n < 1000690000 }
	command := regexp.MustCompile(`(?s)\$ helm install ids [^\n]*?--set installation=shop,new=true (--set podSecurityContext[^\n]*)`).FindSubmatch(document(t, "containers.md"))
	if command == nil {
		t.Fatal("docs/containers.md does not show how to install on OpenShift")
	}
	values := parsed(t, valueSets["everything"])
	for _, set := range strings.Split(strings.TrimPrefix(string(command[1]), "--set "), " --set ") {
		if err := strvals.ParseInto(set, values); err != nil {
			t.Fatal(err)
		}
	}
	r, err := render(load(t), values)
	if err != nil {
		t.Fatal(err)
	}
	workloads := read(t, documents(r)).workloads
	if len(workloads) != 3 {
		t.Errorf("%d workloads", len(workloads))
	}
	for _, w := range workloads {
		pod := w.template.Spec
		refuse := func(why string) { t.Errorf("OpenShift refuses %s: %s", w.name, why) }
		if pod.HostNetwork || pod.HostPID || pod.HostIPC { // allowHost…: false
			refuse("host namespaces")
		}
		for _, v := range pod.Volumes {
			if v.ConfigMap == nil && v.CSI == nil && v.DownwardAPI == nil && v.EmptyDir == nil && v.Ephemeral == nil &&
				v.PersistentVolumeClaim == nil && v.Projected == nil && v.Secret == nil {
				refuse("volume " + v.Name)
			}
		}
		p := pod.SecurityContext
		if !inRange(p.FSGroup) { // fsGroup: MustRunAs
			refuse("fsGroup")
		}
		if !inRange(p.RunAsUser) { // runAsUser: MustRunAsRange
			refuse("runAsUser of the pod")
		}
		if p.SeccompProfile == nil || p.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault { // seccompProfiles: runtime/default
			refuse("seccompProfile")
		}
		if p.SELinuxOptions != nil { // seLinuxContext: MustRunAs
			refuse("seLinuxOptions")
		}
		if p.RunAsGroup != nil { // OpenShift would run it, but could not write to the image's folder
			t.Errorf("%s has the group %d, not that of the image's data folder", w.name, *p.RunAsGroup)
		}
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			s := c.SecurityContext
			for _, port := range c.Ports { // allowHostPorts: false
				if port.HostPort != 0 {
					refuse("host port")
				}
			}
			if !inRange(s.RunAsUser) {
				refuse("runAsUser of the container")
			}
			if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.Privileged != nil && *s.Privileged {
				refuse("privileges")
			}
			// requiredDropCapabilities: [ALL], allowedCapabilities: [NET_BIND_SERVICE]
			if !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
				refuse("capabilities")
			}
		}
	}
}

// TestMonitoring: rules and dashboard are those of the docs, and the PodMonitor
// finds all pods.
func TestMonitoring(t *testing.T) {
	o := read(t, rendered(t, valueSets["everything"]))
	if len(o.monitors) != 1 || len(o.rules) != 1 {
		t.Fatalf("%d monitors, %d rules", len(o.monitors), len(o.rules))
	}
	want := strictly[monitoringv1.PrometheusRuleSpec](t, document(t, "prometheus-rules.yml"))
	got, err := yaml.Marshal(o.rules[0].Spec)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := yaml.Marshal(want); err != nil || !bytes.Equal(got, want) || len(o.rules[0].Spec.Groups) == 0 {
		t.Errorf("rules differ from docs/prometheus-rules.yml: %v\n%s", err, got)
	}
	if got := o.configs["ids-dashboard"].Data["idworker.json"]; got != string(document(t, "grafana.json")) {
		t.Errorf("the dashboard differs from docs/grafana.json: %.200s", got)
	}
	for _, w := range o.workloads {
		s, err := metav1.LabelSelectorAsSelector(&o.monitors[0].Spec.Selector)
		if err != nil || w.serves && !s.Matches(labels.Set(w.template.Labels)) {
			t.Errorf("no metrics of %s: %v", w.name, err)
		}
		if w.template.Annotations["prometheus.io/scrape"] != "" {
			t.Errorf("%s is scraped twice", w.name)
		}
	}
}
