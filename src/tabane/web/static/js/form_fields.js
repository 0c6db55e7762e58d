// Fields of a form that was read from a schema: items of lists, members that may be absent, one of several kinds.

/** Make the fields of a form work. `edited` is called after items were added or removed. */
export function fields(form, edited = () => {}) {
  form.addEventListener("change", ({ target }) => {
    if (target.matches("[data-adds]")) {
      const inside = target.closest("fieldset").querySelector(":scope > [data-added]");
      inside.disabled = inside.hidden = !target.checked;
    } else if (target.matches("[data-variant]")) {
      for (const option of target.closest("[data-variants]").querySelectorAll(":scope > [data-option]")) {
        option.disabled = option.hidden = option.dataset.option !== target.value;
      }
    }
  });
  form.addEventListener("click", (event) => {
    const button = event.target.closest("[data-add-item], [data-remove-item]");
    if (!button) return;
    if (button.matches("[data-add-item]")) addItem(button.closest("[data-list]"));
    else removeItem(button);
    edited();
  });
}

function addItem(list) {
  const items = list.querySelector(":scope > [data-items]");
  const template = list.querySelector(":scope > template");
  const next = Number(items.dataset.next || items.children.length);
  items.dataset.next = next + 1;
  const made = document.createElement("template");
  made.innerHTML = template.innerHTML.replaceAll(list.dataset.list, String(next));
  items.append(made.content);
  items.lastElementChild.querySelector("input:not([type=hidden]), textarea, select, button")?.focus();
}

function removeItem(button) {
  const item = button.closest("[data-item]");
  const list = item.closest("[data-list]");
  const near = item.nextElementSibling || item.previousElementSibling;
  const items = list.querySelector(":scope > [data-items]");
  items.dataset.next ||= items.children.length;
  item.remove();
  (near?.querySelector("[data-remove-item]") || list.querySelector(":scope > .row [data-add-item]")).focus();
}
