package schema

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // its types
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	_ "k8s.io/kubernetes/pkg/apis/policy/install" // its types
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"
	"k8s.io/pod-security-admission/api"
	podsecurity "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const manifests = "../../../docs/deploy/kubernetes"

// objects are the objects of the kustomization.
type objects struct {
	sets     []*appsv1.StatefulSet
	services []*corev1.Service
	settings []*corev1.ConfigMap
	budgets  []*policyv1.PodDisruptionBudget
}

// build builds the kustomization, and validates its objects as Kubernetes' API
// server does when it creates them.
func build(t *testing.T) (o objects) {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), manifests)
	if err != nil {
		t.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict)
	for _, resource := range built.Resources() {
		name := resource.GetKind() + " " + resource.GetName()
		data, err := resource.AsYAML()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		versioned, _, err := codecs.UniversalDeserializer().Decode(data, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		internal, _, err := codecs.UniversalDecoder().Decode(data, nil, nil) // with defaults
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, wrong := range check(t, internal) {
			t.Errorf("%s: %v", name, wrong)
		}
		switch v := versioned.(type) {
		case *appsv1.StatefulSet:
			o.sets = append(o.sets, v)
		case *corev1.Service:
			o.services = append(o.services, v)
		case *corev1.ConfigMap:
			o.settings = append(o.settings, v)
		case *policyv1.PodDisruptionBudget:
			o.budgets = append(o.budgets, v)
		}
	}
	return o
}

// check calls the validation of an object's kind. A namespace is added when the
// object is created.
func check(t *testing.T, object runtime.Object) field.ErrorList {
	t.Helper()
	switch v := object.(type) {
	case *apps.StatefulSet:
		v.Namespace = "ids"
		return appsvalidation.ValidateStatefulSet(v, appsvalidation.StatefulSetValidationOptions{}, pod.GetValidationOptionsFromPodTemplate(&v.Spec.Template, nil))
	case *core.Service:
		v.Namespace = "ids"
		v.Spec.ClusterIPs = []string{v.Spec.ClusterIP} // the API server adds it, too
		return corevalidation.ValidateServiceCreate(v)
	case *core.ConfigMap:
		v.Namespace = "ids"
		return corevalidation.ValidateConfigMap(v)
	case *policy.PodDisruptionBudget:
		v.Namespace = "ids"
		return policyvalidation.ValidatePodDisruptionBudget(v, policyvalidation.PodDisruptionBudgetValidationOptions{})
	}
	t.Fatalf("no validation for %T", object)
	return nil
}

// TestManifestsAreValid: Kubernetes' API server would accept all objects, and
// the kustomization has all files.
func TestManifestsAreValid(t *testing.T) {
	o := build(t)
	if len(o.sets) != 2 || len(o.services) != 1 || len(o.settings) != 1 || len(o.budgets) != 2 {
		t.Errorf("%d sets, %d services, %d config maps, %d budgets", len(o.sets), len(o.services), len(o.settings), len(o.budgets))
	}
	kustomization, err := os.ReadFile(filepath.Join(manifests, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(manifests, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if name := filepath.Base(path); name != "kustomization.yaml" && !strings.Contains(string(kustomization), "\n  - "+name+"\n") {
			t.Errorf("the kustomization lacks %s", name)
		}
	}
}

// TestObjectsFitTogether: selectors select the pods they are meant for, and
// every name has its object.
func TestObjectsFitTogether(t *testing.T) {
	o := build(t)
	service := o.services[0]
	for _, set := range o.sets {
		template := set.Spec.Template
		mine := labels.Set(template.Labels)
		selects := func(what string, selector *metav1.LabelSelector) bool {
			s, err := metav1.LabelSelectorAsSelector(selector)
			if err != nil {
				t.Errorf("%s of %s: %v", what, set.Name, err)
			}
			return err == nil && !s.Empty() && s.Matches(mine)
		}
		if set.Spec.ServiceName != service.Name || !labels.SelectorFromSet(service.Spec.Selector).Matches(mine) {
			t.Errorf("service %s does not select %s", service.Name, set.Name)
		}
		budgets := slices.DeleteFunc(slices.Clone(o.budgets), func(b *policyv1.PodDisruptionBudget) bool { return !selects("budget", b.Spec.Selector) })
		if len(budgets) != 1 {
			t.Errorf("%d budgets for %s", len(budgets), set.Name)
		}
		topologies := make(map[string]bool)
		for _, c := range template.Spec.TopologySpreadConstraints {
			topologies[c.TopologyKey] = selects("spread", c.LabelSelector)
		}
		if !topologies[corev1.LabelTopologyZone] || !topologies[corev1.LabelHostname] {
			t.Errorf("%s is not spread over zones and hosts: %v", set.Name, topologies)
		}
		container := template.Spec.Containers[0]
		ports := make(map[intstr.IntOrString]bool)
		for _, p := range container.Ports {
			ports[intstr.FromString(p.Name)] = true
		}
		if !ports[service.Spec.Ports[0].TargetPort] {
			t.Errorf("%s has no port %v for the service", set.Name, service.Spec.Ports[0].TargetPort)
		}
		for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
			if probe == nil || !ports[probe.HTTPGet.Port] {
				t.Errorf("%s: a probe is missing or has no port: %v", set.Name, probe)
			}
		}
		for _, from := range container.EnvFrom {
			if from.ConfigMapRef == nil || from.ConfigMapRef.Name != o.settings[0].Name {
				t.Errorf("%s: no config map %v", set.Name, from)
			}
		}
		mounted := make(map[string]bool)
		for _, m := range container.VolumeMounts {
			mounted[m.MountPath] = true
		}
		for _, v := range container.Env {
			if filepath.IsAbs(v.Value) && !mounted[filepath.Dir(v.Value)] {
				t.Errorf("%s: nothing is mounted at the folder of %s", set.Name, v.Value)
			}
		}
	}
}

// TestPodsAreRestricted: the pods meet Kubernetes' strictest standard, and more.
func TestPodsAreRestricted(t *testing.T) {
	standard, err := podsecurity.NewEvaluator(podsecurity.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range build(t).sets {
		template := set.Spec.Template
		results := standard.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &template.ObjectMeta, &template.Spec)
		if r := podsecurity.AggregateCheckResults(results); !r.Allowed {
			t.Errorf("%s: %s", set.Name, r.ForbiddenDetail())
		}
		readOnly := template.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem
		token := template.Spec.AutomountServiceAccountToken
		if readOnly == nil || !*readOnly || token == nil || *token || *template.Spec.SecurityContext.RunAsUser != 65534 {
			t.Errorf("%s: read-only %v, token %v", set.Name, readOnly, token)
		}
	}
}
