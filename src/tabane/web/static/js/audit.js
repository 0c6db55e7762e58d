// Audit log: filters that are empty are no part of the address.

export function mount(root) {
  const form = root.querySelector("#audit-filter");
  form?.addEventListener("formdata", (event) => {
    for (const [name, value] of [...event.formData]) if (!value) event.formData.delete(name);
  });
  return null;
}
